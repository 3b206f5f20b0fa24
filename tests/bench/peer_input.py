"""An input of syncopate as its PyTorch peer reads it: the keys that it knows,
and a refusal of any other that would change the run."""
import sys

# Defaults of the keys that are understood; what is not here is refused unless
# it says nothing about training.
DEFAULTS = {
    "run.epochs": "0", "run.steps": "0", "run.workers": "1", "run.seed": "1",
    "run.threads": "0", "run.precision": "fp32",
    "model.family": "resnet", "model.depth": "20", "model.stem": "cifar",
    "model.block": "auto", "model.version": "1", "model.width": "1",
    "model.form": "post", "model.dropout": "0", "model.variant": "he",
    "model.stages": "auto", "model.widths": "auto", "model.stem_width": "auto",
    "model.init": "he",
    "data.kind": "idx", "data.path": "", "data.batch": "128",
    "data.augment": "", "data.crop_pad": "4", "data.fill": "mean",
    "data.normalize": "auto",
    "data.validation": "0", "data.accumulate": "1",
    "data.partition": "interleaved", "data.samples": "2048",
    "data.test_samples": "512", "data.classes": "10", "data.channels": "3",
    "data.height": "32", "data.width": "32",
    "optimizer.kind": "sgd", "optimizer.lr": "0.1",
    "optimizer.momentum": "0.9", "optimizer.nesterov": "no",
    "optimizer.weight_decay": "1e-4", "optimizer.decay_batchnorm": "yes",
    "optimizer.clip_norm": "0", "optimizer.lr_scale": "none",
    "schedule.kind": "constant", "schedule.horizon": "0",
    "schedule.warmup": "0", "schedule.warmup_from": "0",
    "schedule.milestones": "", "schedule.gamma": "0.1",
    "schedule.final_lr": "0",
    "sync.scheme": "bsp", "sync.wire": "fp32", "bsp.batchnorm": "local",
}
# Values without which this is another recipe.
FIXED = {"model.dropout": "0", "model.variant": "he", "model.stages": "auto",
         "model.widths": "auto", "model.stem_width": "auto", "data.normalize": "auto",
         "data.validation": "0", "data.accumulate": "1",
         "data.partition": "interleaved", "optimizer.kind": "sgd",
         "optimizer.clip_norm": "0", "optimizer.lr_scale": "none",
         "schedule.horizon": "0", "sync.scheme": "bsp", "sync.wire": "fp32",
         "bsp.batchnorm": "local"}
IRRELEVANT = ("run.", "eval.", "checkpoint.", "compute.", "network.",
              "sync.collective", "sync.bucket_mb", "data.prefetch",
              "data.noise", "data.synthetic_seed", "data.rotate_degrees",
              "optimizer.", "schedule.")


def refuse(line, code=65):
    """Ends the program with one line; 65: bad input, 64: usage, 66: missing."""
    print(f"error: {line}", file=sys.stderr)
    sys.exit(code)


def read_input(path, overrides):
    """{"section.key": text} of an input and of --section.key=value words."""
    values, section = dict(DEFAULTS), ""
    try:
        lines = open(path, encoding="utf-8").read().splitlines()
    except OSError as error:
        refuse(f"{path}: {error.strerror}", 66)
    pairs = []
    for line in lines:
        line = line.split("#")[0].strip()
        if line.startswith("["):
            section = line.strip("[] ")
        elif "=" in line:
            key, value = line.split("=", 1)
            pairs.append((f"{section}.{key.strip()}", value.strip()))
    for override in overrides:
        key, _, value = override.lstrip("-").partition("=")
        pairs.append((key, value))
    for key, value in pairs:
        if key not in DEFAULTS and not key.startswith(IRRELEVANT):
            refuse(f"{path}: {key}: not known to the PyTorch peer")
        values[key] = value
    for key, value in FIXED.items():
        if values[key] not in (value, value + ".0"):
            refuse(f"{path}: {key} = {values[key]}: the PyTorch peer only has "
                   f"{value}")
    return values


def is_yes(text):
    return text in ("yes", "true", "on", "1")


def steps_of(text, steps_per_epoch):
    """A length: "500", "500 steps", "2.5 epochs"."""
    number, _, unit = text.strip().partition(" ")
    scale = steps_per_epoch if unit.strip().startswith("epoch") else 1
    return float(number or 0) * scale
