"""The page that describes an export."""
