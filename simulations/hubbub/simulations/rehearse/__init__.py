"""An app's own telemetry, many installs of it, before anybody has the app."""
