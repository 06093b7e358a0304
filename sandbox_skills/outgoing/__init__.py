"""HTTP requests that carry a key of the user's: to the configured host alone, asked again within a budget."""
