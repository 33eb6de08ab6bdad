"""The application: use cases, settings, the composition root, the daemon and its command line.

What this package promises: it is the only one that sees every other, and it decides nothing that the domain decides.
:mod:`app.use_cases` asks ports, lets :mod:`domain` judge and carries the effects out; :mod:`app.settings` turns file,
environment and flags into one checked, frozen value; :mod:`app.container` puts the parts together;
:mod:`app.daemon` starts and stops them; :mod:`app.cli` is what people and scripts call.
"""
