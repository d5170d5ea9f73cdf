"""An HTTP server for models: routes for each task, batches across requests, limits, health and metrics."""
