"""Any number of collectors on one PostgreSQL. A batch and its id are one transaction in the server."""
