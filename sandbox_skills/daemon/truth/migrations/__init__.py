"""How the schema came to be, one step a module; alembic reads them from the installed package."""
