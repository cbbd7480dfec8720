"""Results for people and programs: text, files, charts."""
