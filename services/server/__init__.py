"""The server: settings, doors and everything behind them, put together in `app`."""
