"""Writes runs as Sync-Switch's repository holds them, in each of its formats,
with known values: make_published_runs.py FOLDER.

8 workers, 64,000 mini-batches. A BSP step takes 1.25 s, an ASP update 0.02 s, a
restart 200 s. Pure BSP takes 10,000 s, pure ASP 1,280 s, and a switch at 25%
(2,000 BSP steps, ASP until step 50,000) 2,500 + 48,000 * 0.02 = 3,460 s.
"""
import os
import sys

START, BSP_S, ASP_S, RESTART_S = 1590000000.0, 1.25, 0.02, 200.0


def bsp_records(first, last):
    """Steps that a BSP phase logs: its first, and every 100 from there."""
    return list(range(first + 1, last + 1, 100))


def asp_records(first, last, between=117):
    return list(range(first + 1, last + 1, between))


def seconds(step, switch, order):
    """Training time until a step, and whether the second phase has begun."""
    costs = [BSP_S, ASP_S] if order == "10" else [ASP_S, BSP_S]
    return (min(step, switch) * costs[0] + max(step - switch, 0) * costs[1],
            step > switch)


def records(steps, switch, order, value):
    """[(wall, time, step, value)] of a series."""
    rows = []
    for step in steps:
        time, is_second = seconds(step, switch, order)
        rows.append((START + time + RESTART_S * is_second, time, step,
                     value(step)))
    return rows


def write(path, header, rows, ending="\n", padding=0):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    empty = "," * header.count(",")
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(ending.join([header, *(",".join(map(str, row))
                                          for row in rows),
                                *[empty] * padding]))


def loss(step):
    return 8.0 / (1 + step / 100)


def raw(path, rows, **more):
    write(path, "Wall time,Step,Value", [(w, s, v) for w, _, s, v in rows],
          **more)


def main(folder):
    never = 10**9
    bsp = records(bsp_records(0, 8000), never, "10", loss)
    asp = records(asp_records(90, 64000), 0, "10", loss)
    switched = records(bsp_records(0, 2000) + asp_records(2000, 50000), 2000, "10",
                       loss)

    def accuracies(steps, switch, final):
        return records(steps, switch, "10",
                       lambda step: final * step / steps[-1])

    # baseline/bsp: Time, Progress and others; the evaluator a day late, in the
    # line ends of another system.
    write(f"{folder}/cifar10_res32/bsp_1/loss_proc.csv",
          "Wall time,Time,Progress,Step,Norm loss,Value,Loss alpha,"
          "Loss alpha abs",
          [(int(w), t - bsp[0][1], s / 8000, s, v / 8, v, 0, 0)
           for w, t, s, v in bsp])
    raw(f"{folder}/cifar10_res32/bsp_1/acc.csv",
        [(START + 86400, 0, 8000, 0.92)], ending="\r\n")
    # bsp: as the program wrote it.
    raw(f"{folder}/cifar10_res32/bsp_2/loss.csv", bsp)
    raw(f"{folder}/cifar10_res32/bsp_2/acc.csv",
        accuracies([0, 250, 500, 4250, 8000], never, 0.90))
    # baseline/asp: 14 updates too many.
    write(f"{folder}/cifar10_res32/asp_1/loss_proc.csv",
          "Wall time,Time,Step,Value",
          [(int(w), t - asp[0][1], s, v) for w, t, s, v in asp])
    write(f"{folder}/cifar10_res32/asp_1/acc_proc.csv",
          "Wall time,Time,Step,Value",
          [(int(w), t, s, v) for w, t, s, v in
           accuracies([0, 2015, 4035, 64014], 0, 0.88)])
    # switch_exp: Time in the third column; the last row from the job's log.
    name = f"{folder}/cifar10_res32/b25-a75-run"
    write(f"{name}1/loss_proc.csv", "Wall time,Step,Time,Value",
          [(w, float(s), t - switched[0][1], v) for w, t, s, v in switched
           + records([50013], 2000, "10", loss)])
    write(f"{name}1/acc_proc.csv", "Wall time,Step,Time,Value",
          [(w, s, t, v) for w, t, s, v in
           accuracies([0, 1000, 2000, 26100, 50013], 2000, 0.91)])
    # The same without any Time: the restart is in the wall time, and the
    # evaluation at the switch comes twice.
    raw(f"{name}2/loss.csv", switched)
    twice = accuracies([0, 1000, 2000, 2000, 26100, 50014], 2000, 0.93)
    raw(f"{name}2/acc.csv", twice)
    # dynamic: Raw Time with the restart, Time without.
    write(f"{name}3/loss_proc.csv", "Wall time,Raw Time,Step,Value,Time",
          [(w, w - START, s, v, t - switched[0][1])
           for w, t, s, v in switched])
    raw(f"{name}3/acc.csv", twice)
    # ASP first.
    raw(f"{folder}/cifar10_res32/a50-b50-run1/loss.csv", records(
        asp_records(0, 32000) + bsp_records(32000, 36000), 32000, "01", loss))
    # straggler: single files, one padded with empty rows, one raw.
    write(f"{folder}/straggler/sync_baseline_10ms_1.csv",
          "Wall time,Relative time (s),Step,Value",
          [(w, t, s, v) for w, t, s, v in bsp], padding=600)
    raw(f"{folder}/straggler/hybrid_baseline_10ms_1.csv", switched)
    raw(f"{folder}/cifar100_res50/bsp_1/loss.csv", bsp)
    raw(f"{folder}/cifar100_res50/bsp_1/acc.csv",
        accuracies([0, 8000], never, 0.7))
    # 16 workers: half are 2,000 steps, and 32,000 updates, here 30 too many.
    raw(f"{folder}/cluster_16/b50-a50-run1/loss.csv", records(
        bsp_records(0, 2000) + asp_records(2000, 34000), 2000, "10",
        loss))
    raw(f"{folder}/cluster_16/b50-a50-run1/acc.csv",
        accuracies([0, 2000, 34030], 2000, 0.92))


if __name__ == "__main__":
    main(sys.argv[1])
