#!/bin/sh
# Run once by the image of PostgreSQL, when its data are made: the role that collectors have. What it may do is granted by
# `hubbub store create --role collector`. The password goes in by standard input: arguments can be seen by others.
set -eu
psql --quiet --no-psqlrc --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\getenv password COLLECTOR_PASSWORD
create role collector login password :'password';
SQL
