"""How skills come in: fetched with limits, unpacked into nothing but themselves, and accepted by their digest."""
