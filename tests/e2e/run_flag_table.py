"""Runs each row of the tables "published flag -> key" of inputs/README.md.

    run_flag_table.py README.md SYNCOPATE DATA LEAST

A table with fewer than LEAST rows and alternatives is a failure.

A row's assignments, between backquotes, are tried together, under the scheme of
the system whose flags they are and its published number of workers, on made
data: two steps of a linear classifier, or `validate` where a row names a
network, a device or data of its own. Alternatives, which an "or" begins, are
tried one by one. A key that the program refuses because another is not chosen
takes that choice along, with one exception: a scheme other than the system's
own has to stand in the row, unless the key is in that scheme's section. Commands
(`syncopate ...`) are run too. DATA: the folders cifar10, cifar100, fashion,
imagenet, squad and criteo, criteo.tsv, and a run "run" of the input INPUT.ini.

Prints what failed; exit code 1 if anything did.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

SYSTEMS = {"DS-Sync": ("ds_sync", 4), "Sync-Switch": ("sync_switch", 8),
           "CHOCO-SGD": ("choco", 8), "ESync": ("esync", 6)}
WORKERS_OF_TOPOLOGY = {"torus": 9, "expander": 7, "margulis": 16, "social": 32}
SMALL = {"run.threads": "1", "run.epochs": "300",
         "model.family": "logistic",
         "data.kind": "synthetic_images", "data.samples": "2048",
         "data.test_samples": "16", "data.classes": "4", "data.height": "8",
         "data.width": "8", "data.batch": "4", "eval.batch": "4"}
MADE = ("data.samples", "data.test_samples", "data.classes", "data.height",
        "data.width")
FOLDERS = {"idx": "fashion", "cifar10": "cifar10", "cifar100": "cifar100",
           "image_folder": "imagenet", "prepared_images": "prepared",
           "squad": "squad", "criteo": "criteo"}
# What a family of networks is fed here, and its size.
FAMILIES = {"bert": {"data.kind": "synthetic_squad", "model.layers": "1",
                     "model.hidden": "32", "model.heads": "2"},
            "deepfm": {"data.kind": "synthetic_criteo"}}
FORMS = {"pre": {"model.depth": "16"}}  # DS-Sync's wrn is of other depths
# What a system's own flags always give, which other rows rely on.
REQUIRED = {"Sync-Switch": {"sync_switch.order": "10",
                            "sync_switch.fractions": "0.5, 0.5"}}
# What a scheme cannot run without, where a key brings it in.
NEEDED = {"dgc": {"compress.kind": "top_k"}}
FAMILY_OF_DATA = {"squad": "bert", "synthetic_squad": "bert",
                  "criteo": "deepfm", "synthetic_criteo": "deepfm"}
TRAINED_SECTIONS = ("model", "data.kind", "run.device", "run.precision")
# What a machine lacks is no mistake of the row.
LACKS = re.compile(r"no GPU|without CUDA|has no bf16|built without")


def rows(path):
    """(system, line, flags, keys) of each row."""
    system = None
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("#"):
                system = line.strip("# \n")
            if system in SYSTEMS and line.startswith("| `"):
                flags, keys = [cell.strip()
                               for cell in line.strip().split("|")[1:3]]
                yield system, number, flags, keys


def clauses(keys):
    """The assignments {key: value} that are tried together. An "or" begins an
    alternative: its own assignments take the place of the one before it."""
    tried, current = [], {}
    for part in re.split(r"(\bor\b(?=[^`]*`))", keys):
        if part == "or" and current:
            tried.append(dict(current))
            current.popitem()
            continue
        for text in re.findall(r"`([^`]*)`", part):
            name, equals, value = text.partition("=")
            if equals and re.fullmatch(r"[a-z_]+\.[a-z0-9_]+", name.strip()):
                if current.get(name.strip(), value.strip()) != value.strip():
                    tried.append(dict(current))
                current[name.strip()] = value.strip()
    return tried + [current] if current else tried


class Table:
    def __init__(self, syncopate, data):
        self.syncopate, self.data = syncopate, os.path.abspath(data)
        listed = self.call(["list", "schemes"], data)[1]
        self.schemes = {line.split()[0] for line in listed.splitlines()
                        if line[:1].isalpha()}

    def call(self, words, folder):
        done = subprocess.run([self.syncopate, *words], cwd=folder, text=True,
                              stdin=subprocess.DEVNULL, errors="replace",
                              stdout=subprocess.PIPE, timeout=60,
                              stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def keys_of(self, system, row, extra):
        """All keys of a try: the row's, what it takes along, made data."""
        scheme, workers = SYSTEMS[system]
        given = {**extra, **row}
        family, form = given.get("model.family"), given.get("model.form")
        keys = {"sync.scheme": scheme, "run.workers": str(workers), **SMALL,
                **REQUIRED.get(system, {}), **FAMILIES.get(family, {}),
                **FORMS.get(form, {}), **extra, **row}
        family = FAMILY_OF_DATA.get(keys["data.kind"])
        if family:
            keys = {**keys, "model.family": family, **FAMILIES[family], **extra,
                    **row}
        elif keys["data.kind"] in ("image_folder", "prepared_images"):
            keys.update({"data.height": "32", "data.width": "32"})
        if "topology.kind" in row and "run.workers" not in row:
            keys["run.workers"] = str(WORKERS_OF_TOPOLOGY.get(
                row["topology.kind"], workers))
        if not keys["data.kind"].startswith("synthetic_"):
            for name in MADE[:3]:
                keys.pop(name)
            folder = FOLDERS[keys["data.kind"]]
            keys["data.path"] = os.path.join(self.data, folder)
        if keys["data.kind"] not in ("synthetic_images", "image_folder",
                                     "prepared_images"):
            for name in MADE[2:]:
                keys.pop(name, None)
        if "data.path" in row and keys["data.kind"].startswith("synthetic_"):
            keys["data.kind"] = "cifar10"
            for name in MADE:
                keys.pop(name, None)
            keys["data.path"] = os.path.join(self.data, "cifar10")
        if keys["data.kind"] == "squad":
            keys["data.vocabulary"] = keys["data.path"] + "/vocab.txt"
        if "run.steps" in row and "run.epochs" not in row:
            del keys["run.epochs"]
        if "sync_switch.train_steps" in row:
            del keys["sync_switch.fractions"]
        return keys

    def take_along(self, system, row, output):
        """What a refusal asks for in place of a choice of ours; None where the
        row has to say it."""
        refusal = re.search(
            r"([a-z_]+\.[a-z0-9_]+): is used by ([a-z_]+\.[a-z0-9_]+) = "
            r"([a-z0-9_, ]+?)(?:, not by| and |\n|$)", output)
        if not refusal:
            return None
        key, other, words = refusal.groups()
        choices = re.split(r", | or ", words.strip())
        own = key.split(".")[0] in self.schemes
        if other in row or (other == "sync.scheme" and not own):
            return None
        made = [word for word in choices if word.startswith("synthetic_")]
        choice = (made or choices)[0]
        return {other: choice, **NEEDED.get(choice, {})}

    def try_one(self, system, row):
        """None, or what the program said."""
        extra, output = {}, ""
        for _ in range(8):
            keys = self.keys_of(system, row, extra)
            is_trained = not any(name.startswith(TRAINED_SECTIONS)
                                 for name in (*row, *extra))
            with tempfile.TemporaryDirectory() as folder:
                open(os.path.join(folder, "in.ini"), "w").close()
                if is_trained:
                    keys["run.stop_at"] = "2"
                code, output = self.call(
                    ["train" if is_trained else "validate", "in.ini",
                     *(f"--{key}={value}" for key, value in keys.items())],
                    folder)
            if code == 0 or LACKS.search(output):
                return None
            more = self.take_along(system, row, output)
            if more is None or more.items() <= extra.items():
                break
            extra.update(more)
        lines = [line for line in output.splitlines() if "error" in line]
        return "\n    ".join(lines or output.splitlines()[-3:])

    def try_command(self, text):
        words = [{"FILE.tsv": self.data + "/criteo.tsv", "DIR": "out",
                  "INPUT.ini": self.data + "/INPUT.ini"}.get(word, word)
                 for word in text.split()[1:]]
        words = [word.replace("=PATH", f"={self.data}/run") for word in words]
        with tempfile.TemporaryDirectory() as folder:
            code, output = self.call(words, folder)
        return None if code == 0 else output.strip().splitlines()[-1]


def main(readme, syncopate, data, least):
    table = Table(syncopate, data)
    tries = []
    for system, number, flags, keys in rows(readme):
        tries += [(number, flags, row, table.try_one, (system, row))
                  for row in clauses(keys)]
        tries += [(number, flags, text, table.try_command, (text,))
                  for text in re.findall(r"`(syncopate [^`]*)`", keys)]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = [(*one[:3], pool.submit(one[3], *one[4])) for one in tries]
        for number, flags, what, result in done:
            if result.result() is not None:
                failed += 1
                print(f"FAILED: line {number}: {flags}: {what}\n"
                      f"    {result.result()}")
    print(f"{len(tries)} rows and alternatives tried, {failed} failed")
    return 1 if failed or len(tries) < int(least) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
