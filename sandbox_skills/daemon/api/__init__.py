"""HTTP: requests are read and checked, a service is called, its answer is written. No rule of the product is here."""
