"""The journal in an SQLite file.

What this package promises: it touches one file, what SQLite keeps beside it, what was set aside in the same directory,
and the mode of that directory; nothing else.  It knows the domain's values and no rule of their life.  A secret
leaves it only through a value that it was asked for, never through a message.
"""
