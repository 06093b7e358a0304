"""What is true of tenants, keys, runs, sessions and skills: tables, and the transactions that change them."""
