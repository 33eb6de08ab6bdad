"""When to look again, and what only events tell: that a container has not been started yet."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from adapters.containerd.conversation import Conversation
from adapters.containerd.errors import mapped
from domain.ports.runtime import RuntimeUnavailable


class Feed:
    """One listener's feed of hints.

    Args:
        path: containerd's socket, for messages.
        namespace: containerd's.
        deadline: seconds for one answer.

    Attributes:
        waiting: containers that were made before our eyes and have not been started yet.  A task that was created and
            deleted between two readings leaves no trace but its events.
    """

    def __init__(self, *, path: str, namespace: str, deadline: float) -> None:
        self._path = path
        self._filters = tuple(
            f'namespace=="{namespace}",topic~="{topics}"'
            for topics in ("^/containers/", "^/tasks/(create|start|exit|delete|paused|resumed)$")
        )
        self._deadline = deadline
        self._news = asyncio.Event()
        self.waiting: set[str] = set()

    async def hints(self, conversation: Conversation) -> AsyncGenerator[None]:
        """Yield when the feed is up, and after that whenever something has changed since the last time.

        Raises:
            RuntimeUnavailable: containerd is not there, or not any more.
        """
        listening = asyncio.create_task(self._listen(conversation))
        listening.add_done_callback(lambda _: self._news.set())
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                if listening.done():
                    listening.result()
                yield
        finally:
            listening.cancel()  # if it has failed already, this also says that nobody will ask why
            await asyncio.wait({listening})

    async def _listen(self, conversation: Conversation) -> None:
        """Take events as they come, however slow the listener is: containerd would have to keep them."""
        try:
            with mapped(self._path, self._deadline):
                async with aclosing(conversation.events(*self._filters)) as events:
                    async with asyncio.timeout(self._deadline):
                        # Nothing comes until something happens.  A later question's answer shows that ours has arrived.
                        await conversation.version()
                    self._news.set()
                    async for topic, event in events:
                        if self._understood(topic, event):
                            self._news.set()
        finally:
            self.waiting.clear()  # what happens from now on is not seen
        raise RuntimeUnavailable(f"containerd at {self._path} has ended its stream of events")

    def _understood(self, topic: str, event: Any) -> bool:
        """Learn from an event, and say whether a listener has to look again."""
        match topic:
            case "/containers/create":
                self.waiting.add(event.id)
            case "/containers/delete":
                self.waiting.discard(event.id)
            case "/tasks/exit" if event.id != event.container_id:
                return False  # a probe or the like, in a container that runs on
            case _ if topic.startswith("/tasks/") and event is not None:
                self.waiting.discard(event.container_id)
        return True
