"""What a start-up log of the engine says: pure, from text to figures with their lines."""
