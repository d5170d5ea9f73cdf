"""Classification with few labels."""
