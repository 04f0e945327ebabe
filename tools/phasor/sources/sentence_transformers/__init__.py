"""What directories of sentence-transformers add to those of Hugging Face: modules, late
interaction, static embeddings; and decoders that give vectors or scores."""
