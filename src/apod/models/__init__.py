"""What is mitigated: bodies that turn rows or pictures into embeddings, pre-trained once and frozen."""
