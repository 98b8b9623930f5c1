"""Engines that sample from a policy, behind one interface: `engines.Engine`."""
