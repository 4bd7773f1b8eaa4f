"""What POD trains on top of a frozen body: a bank of small heads, and the random numbers they share."""
