"""A model on the hub, through the hub library: its cache, endpoint, token and offline rules."""

from __future__ import annotations

import contextlib
import logging
import re
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from kvplan_cli.errors import Problem, UnplannableError
from kvplan_cli.loader.catalogue import model_of_hub_id, nearest_model
from kvplan_cli.loader.checkpoint import INDEX_NAME, find_checkpoint
from kvplan_cli.loader.documents import read_object
from kvplan_cli.loader.folder import (
    CONFIG_NAME,
    EXTRA_NAMES,
    HUB_NAMES,
    QUANTIZATION_NAME,
    kept_values,
    read_config,
)
from kvplan_cli.loader.mistral_format import PARAMS_NAME
from kvplan_cli.loader.model_source import ModelSource, Origin, OriginKind
from kvplan_cli.loader.problems import printable
from kvplan_cli.loader.sentence_transformers import read_modules
from kvplan_cli.values import dataclass

HUB_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_TOKENIZER_NAMES: Final = EXTRA_NAMES[:2]
# Weights of Mistral's form, whole or in parts.
_OWN_WEIGHTS: Final = ("consolidated.safetensors", "consolidated.safetensors.index.json")
_SERVER_FAULT: Final = 500
_TOO_MANY: Final = 429
_NOT_FOUND: Final = 404
_DENIALS: Final = (401, 403)
_UNREACHED: Final = "the hub can't be reached"
_MAIN: Final = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repository:
    """A repository at one revision. silence: why the hub does not answer, None where it does."""

    hub_id: str
    revision: str | None
    silence: str | None

    @property
    def cached_only(self) -> bool:
        return self.silence is not None

    def fetch(self, name: str) -> Path:
        from huggingface_hub import hf_hub_download

        return Path(
            hf_hub_download(
                self.hub_id,
                name,
                revision=self.revision,
                local_files_only=self.cached_only,
                library_name="kvplan",
            )
        )

    def file(self, name: str) -> Path:
        """The file's local path. UnplannableError where it can't be had."""
        # Foreign code over a network: every failure is one ending, facts that can't be had.
        try:
            return self.fetch(name)
        except Exception as error:
            raise self._unreachable(name, error) from None

    def optional(self, name: str) -> Path | None:
        """The same, or None where the repository (or, unreachable, the cache) has none."""
        from huggingface_hub.errors import EntryNotFoundError

        try:
            return self.fetch(name)
        except EntryNotFoundError:
            return None
        except Exception as error:
            raise self._unreachable(name, error) from None

    def holds(self, name: str) -> bool:
        """Whether the repository has a file, without fetching it."""
        from huggingface_hub import get_hf_file_metadata, hf_hub_url
        from huggingface_hub.errors import EntryNotFoundError

        try:
            get_hf_file_metadata(hf_hub_url(self.hub_id, name, revision=self.revision))
        except EntryNotFoundError:
            return False
        except Exception as error:
            raise self._unreachable(name, error) from None
        return True

    def _unreachable(self, name: str, error: Exception) -> UnplannableError:
        reason, way_out = _explain(self, name, error)
        bundled = model_of_hub_id(self.hub_id)
        near = bundled.name if bundled else nearest_model(self.hub_id.rpartition("/")[2])
        if bundled:
            way_out += f"; kvplan brings this model as {bundled.name}"
        elif near:
            way_out += f"; kvplan brings {near}"
        return UnplannableError(Problem(where=self.hub_id, reason=reason, way_out=way_out))


def read_hub(hub_id: str, revision: str | None) -> ModelSource:
    """The model of a hub repository, from the local cache where the hub does not answer.

    UnplannableError where its config can't be had: offline, no network, gated, not found.
    """
    _hush()
    repository = _Repository(
        hub_id=hub_id, revision=revision, silence=_silence_of(hub_id, revision)
    )
    config_path = _config_path(repository)
    config = read_config(config_path)
    names = list(_TOKENIZER_NAMES)
    if config.get("quantization_config") is None:
        names.insert(0, QUANTIZATION_NAME)
    classes = config.get("architectures")
    if isinstance(classes, list):
        names += [name for architecture, name in HUB_NAMES.items() if architecture in classes]
    extra: dict[str, Any] = {}
    for name in names:
        if (path := repository.optional(name)) is not None:
            extra[name] = kept_values(name, read_object(path))
    extra |= read_modules(repository.optional)
    # Of the weights only the index is small enough to fetch; a plan does without it.
    with contextlib.suppress(UnplannableError):
        repository.optional(INDEX_NAME)
    return ModelSource(
        name=hub_id,
        config=config,
        origin=Origin(
            kind=OriginKind.HUB,
            place=f"{hub_id}/{config_path.name}",
            detail=f"revision {revision or 'main'}, commit {config_path.parent.name[:12]}"
            + (", from the local cache" if repository.cached_only else ""),
        ),
        extra_files=extra,
        checkpoint=find_checkpoint(config_path.parent),
        hub_revision=None if repository.cached_only else revision or _MAIN,
    )


def _config_path(repository: _Repository) -> Path:
    """The file that the engine reads: Mistral's own where the weights are of its form, too.

    The local cache does not know of weights: there, Mistral's own file speaks for them.
    """
    params, hub_config = repository.optional(PARAMS_NAME), repository.optional(CONFIG_NAME)
    if params is not None and hub_config is not None and not repository.cached_only:
        params = params if any(map(repository.holds, _OWN_WEIGHTS)) else None
    return params or hub_config or repository.file(CONFIG_NAME)


def _hush() -> None:
    """No bars and no notices: standard error is for the user's own answer."""
    from huggingface_hub.utils.logging import set_verbosity
    from huggingface_hub.utils.tqdm import disable_progress_bars

    set_verbosity(logging.CRITICAL)
    disable_progress_bars()


def _silence_of(hub_id: str, revision: str | None) -> str | None:
    """Why the hub does not answer; None where it does, be it with a refusal. One try.

    The library itself would try six times over half a minute before it gives up, and for
    minutes where it is told to wait.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        get_hf_file_metadata(hf_hub_url(hub_id, CONFIG_NAME, revision=revision))
    except OfflineModeIsEnabled:
        return "HF_HUB_OFFLINE is set"
    except HfHubHTTPError as error:
        status = error.response.status_code
        silent = status >= _SERVER_FAULT or status == _TOO_MANY
        return f"{_UNREACHED}: it answers {_worded(status)}" if silent else None
    except Exception:
        return _UNREACHED
    return None


def _worded(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _explain(repository: _Repository, name: str, error: Exception) -> tuple[str, str]:
    """Why, and what to do."""
    from huggingface_hub import errors

    local = "or give a config.json you have"
    # A refusal without a code of the hub's own may stand behind a file that is not in the cache.
    refusal = error.__cause__ if isinstance(error.__cause__, errors.HfHubHTTPError) else error
    if isinstance(refusal, errors.HfHubHTTPError) and refusal.response.status_code != _NOT_FOUND:
        return _refused(name, refusal, local)
    # Subclasses stand before their bases.
    if isinstance(error, errors.RevisionNotFoundError):
        return f"no revision {printable(str(repository.revision), 60)}", "check --revision"
    if isinstance(error, errors.RepositoryNotFoundError):
        return _not_found(local)
    if isinstance(error, errors.OfflineModeIsEnabled | errors.LocalEntryNotFoundError):
        why = repository.silence or _UNREACHED
        return (
            f"{name} is not in the local cache and {why}",
            f"connect once (HF_HUB_OFFLINE unset, HF_ENDPOINT right), {local}",
        )
    if isinstance(error, errors.EntryNotFoundError):
        return f"the repository has no {name}", f"check the id, {local}"
    return _failed(name, error, local)


def _refused(name: str, error: Any, local: str) -> tuple[str, str]:
    """The hub's answer is a refusal."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return (
            "the repository is gated",
            f"accept its terms and log in with `hf auth login`, {local}",
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return _not_found(local)
    status = error.response.status_code
    if status in _DENIALS:
        return (
            f"the hub denies {name}: {_worded(status)}",
            "check HF_TOKEN or log in with `hf auth login`, for a token that is not valid is "
            f"denied public models too, {local}",
        )
    return _failed(name, error, local)


def _not_found(local: str) -> tuple[str, str]:
    return (
        "no such repository on the hub, or a private one",
        f"check the id; for a private one log in with `hf auth login`, {local}",
    )


def _failed(name: str, error: Exception, local: str) -> tuple[str, str]:
    words = printable(str(error).strip().split("\n")[0], 160) or type(error).__name__
    return f"{name} can't be had from the hub: {words}", f"try again later, {local}"
