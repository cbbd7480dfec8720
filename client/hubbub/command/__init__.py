"""The `hubbub` command. Subcommands are a table; the module behind one is imported when it is called."""
