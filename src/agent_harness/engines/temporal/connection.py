"""Connection to the Temporal server, and an event loop in a separate thread. Temporal's own settings configure the
connection."""

import asyncio
import gc
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from datetime import timedelta
from typing import Any, TypeVar

from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

from agent_harness.engines.address import EngineAddress
from agent_harness.errors import PreflightFailed
from agent_harness.kernel.git import end_transfers

CONNECT_SECONDS = 10.0
_Value = TypeVar("_Value")


async def connected(address: EngineAddress) -> Client:
    """Return a client of the Temporal server. Raise ``PreflightFailed`` if the server does not answer."""
    quiet = TelemetryConfig(logging=LoggingConfig(filter=TelemetryFilter(core_level="ERROR", other_level="ERROR")))
    try:
        settings = dict(ClientConfig.load_client_connect_config())
        settings |= {"target_host": address.target, "namespace": address.namespace}
        client = await asyncio.wait_for(
            Client.connect(**settings, runtime=Runtime(telemetry=quiet)),  # type: ignore[arg-type]
            CONNECT_SECONDS,
        )
        await asyncio.wait_for(_knows_namespace(client, address), CONNECT_SECONDS)
    except PreflightFailed:
        raise
    except Exception as error:  # the SDK raises RuntimeError, RPCError and others for a server that is not there
        told = f"no Temporal server answers at {address.target} ({' '.join(str(error).split())[:160] or 'no answer'})"
        raise PreflightFailed(told, hint=f"harness engine check '{address}'") from None
    return client


async def _knows_namespace(client: Client, address: EngineAddress) -> None:
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
    from temporalio.service import RPCError, RPCStatusCode

    try:
        wanted = DescribeNamespaceRequest(namespace=address.namespace)
        await client.workflow_service.describe_namespace(wanted, timeout=timedelta(seconds=CONNECT_SECONDS))
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            told = f"the server at {address.target} has no namespace {address.namespace!r}"
            hint = f"temporal operator namespace create --namespace {address.namespace}"
            raise PreflightFailed(told, hint=hint) from None
        if error.status != RPCStatusCode.PERMISSION_DENIED:
            raise


class LoopThread:
    """Event loop thread that runs coroutines for synchronous code."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, what: Coroutine[Any, Any, _Value]) -> _Value:
        return self.begin(what).result()

    def begin(self, what: Coroutine[Any, Any, _Value]) -> "Future[_Value]":
        return asyncio.run_coroutine_threadsafe(what, self._loop)

    def close(self) -> None:
        """Cancel all coroutines and git transfers, and end the loop's thread."""
        # transfers too, because a remote may never answer

        async def cancel() -> None:
            others = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
            for each in others:
                each.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            ending = asyncio.ensure_future(self._loop.shutdown_default_executor())
            while not ending.done():
                end_transfers()
                await asyncio.wait({ending}, timeout=0.1)

        self.do(cancel())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
        if not self._loop.is_running():
            self._loop.close()
        gc.collect()  # the Temporal SDK ends its own threads when its last object is deleted
