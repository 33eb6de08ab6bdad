"""Generated code: the messages, stubs and servicers of `proto/`, private to the adapters that need them.

Made by `make proto` (`tools/proto.py`) and committed, so that neither a build nor a reader needs protoc. Not
to be edited: change the sources in `proto/`, whose comments document what stands here.
"""
