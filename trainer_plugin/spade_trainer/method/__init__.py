"""The method as pure functions: plain numbers in, plain numbers out, no framework, one implementation for all."""
