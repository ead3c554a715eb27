"""The thinking: pure functions over plain data. No I/O, no clock, no logging."""
