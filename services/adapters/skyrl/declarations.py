"""What a SkyRL configuration says of the run that is declared: its objective, its geometry, its plan.

    rec.declare_run(sources=[...], rl_start={...}, **declaration(trainer.cfg))

A string such as `rloo_n` names no algorithm by itself, since a script may register its own behind it: name the code's
revisions too, with `code`. Settings that say "unset" by a negative number are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from services.adapters.skyrl.settings import setting

_ALGORITHM: Final[Mapping[str, str]] = {
    **{
        name: f"trainer.algorithm.{name}"
        for name in (
            "advantage_estimator",
            "policy_loss_type",
            "loss_reduction",
            "eps_clip_low",
            "eps_clip_high",
            "use_kl_loss",
            "kl_loss_coef",
            "use_kl_in_reward",
            "use_entropy_loss",
            "entropy_loss_coef",
            "use_tis",
            "tis_imp_ratio_cap",
            "rloo_n_min_group_size",
        )
    },
    "learning_rate": "trainer.policy.optimizer_config.lr",
    "train_batch_size": "trainer.train_batch_size",
    "policy_mini_batch_size": "trainer.policy_mini_batch_size",
    "micro_train_batch_size_per_gpu": "trainer.micro_train_batch_size_per_gpu",
    "update_epochs_per_batch": "trainer.update_epochs_per_batch",
    "n_samples_per_prompt": "generator.n_samples_per_prompt",
    "temperature": "generator.sampling_params.temperature",
    "max_input_length": "generator.max_input_length",
    "max_generate_length": "generator.sampling_params.max_generate_length",
    "seed": "trainer.seed",
}
_OTHER: Final = ("trainer.algorithm.off_policy_correction", "trainer.algorithm.dynamic_sampling.type")
_PARALLELISM: Final[Mapping[str, tuple[str, ...]]] = {
    "strategy": ("trainer.strategy",),
    "nodes": ("trainer.placement.policy_num_nodes",),
    "devices_per_node": ("trainer.placement.policy_num_gpus_per_node",),
    "rollout_engines": ("generator.inference_engine.num_engines", "generator.num_inference_engines"),
    "rollout_tensor": (
        "generator.inference_engine.tensor_parallel_size",
        "generator.inference_engine_tensor_parallel_size",
    ),
}
_MEGATRON: Final[Mapping[str, str]] = {
    "tensor": "trainer.policy.megatron_config.tensor_model_parallel_size",
    "pipeline": "trainer.policy.megatron_config.pipeline_model_parallel_size",
    "expert": "trainer.policy.megatron_config.expert_model_parallel_size",
}
_PLAN: Final[Mapping[str, tuple[str, ...]]] = {
    "planned_steps": ("trainer.max_steps", "trainer.max_training_steps"),
    "checkpoint_interval": ("trainer.ckpt_interval",),
    "export_interval": ("trainer.hf_save_interval",),
    "max_checkpoints_kept": ("trainer.max_ckpts_to_keep",),
}


def declaration(config: Any, *, planned_steps: int | None = None) -> dict[str, Any]:
    """Fields of `run.declared`.

    Args:
        config: The trainer's, before it changes.
        planned_steps: Where the configuration names none: `trainer.total_training_steps`.
    """
    algorithm = {name: value for name, path in _ALGORITHM.items() if (value := _known(config, path)) is not None}
    algorithm["other"] = {path: value for path in _OTHER if (value := _plain(setting(config, path))) is not None}
    parallelism = {name: value for name, paths in _PARALLELISM.items() if (value := _first(config, paths)) is not None}
    if parallelism.get("strategy") == "megatron":
        parallelism |= {n: value for n, path in _MEGATRON.items() if (value := _known(config, path)) is not None}
    # An interval or a limit of 0 means none.
    plan = {name: value for name, paths in _PLAN.items() if (value := _first(config, paths))}
    if planned_steps is not None:
        plan.setdefault("planned_steps", planned_steps)
    return {"algorithm": algorithm, "parallelism": parallelism, **plan}


def _first(config: Any, paths: tuple[str, ...]) -> Any:
    return next((value for path in paths if (value := _known(config, path)) is not None), None)


def _known(config: Any, path: str) -> Any:
    """A setting that says something: a number below 0 says that it is not set."""
    value = setting(config, path)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return None if is_number and value < 0 else value


def _plain(value: Any) -> Any:
    """A part of the configuration as a mapping, where it is one."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return _plain(vars(value)) if hasattr(value, "__dict__") else value
