"""The doors: server, command line and what runs beside them."""
