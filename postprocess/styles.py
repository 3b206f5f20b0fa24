"""How lines and bars are drawn: a scheme has the same colour and marker in
every picture, and a part of a worker's time the same colour.
"""
from collections import Counter

# Okabe and Ito's palette for every kind of colour vision, with grey instead of
# yellow.
BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK, GREY = PALETTE = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9",
    "#000000", "#8A8A8A"]
DASHES = ["-", "--", "-.", ":"]
FILLS = ["full", "none"]
PARTS = {"compute": BLUE, "communication": ORANGE,
         "waiting for others": RED}
# Relatives share a colour: all-reduce with compression is grey, parameter
# servers are green, averaging over neighbours is light blue.
SCHEMES = {
    "bsp": (BLACK, "o", "-"), "ds_sync": (BLUE, "s", "-"),
    "local_sgd": (RED, "^", "-"), "easgd": (RED, "v", "--"),
    "ef_sign_sgd": (GREY, "o", "--"), "dgc": (GREY, "s", "-"),
    "power_sgd": (GREY, "^", ":"), "asp": (GREEN, "D", "-"),
    "ssp": (GREEN, "v", "--"), "esync": (PINK, "P", "-"),
    "sync_switch": (ORANGE, "X", "-"), "d_psgd": (SKY, "<", "-"),
    "choco": (SKY, "o", "--"), "dcd_psgd": (SKY, "s", "-."),
    "ecd_psgd": (SKY, "^", ":"), "deep_squeeze": (BLUE, "D", "--"),
    "sgp": (ORANGE, "P", "--")}
# Markers that no scheme has, for lines of no scheme or of several.
OTHER_MARKERS = "*>ph8"


TIMES = {"virtual_s": "virtual time (s)",
         "time_s": "training time on this machine (s)"}


def style_of(scheme, earlier):
    """The style of a line, of which `earlier` ones are of the same scheme."""
    if scheme not in SCHEMES:
        return {"color": PALETTE[earlier % len(PALETTE)],
                "marker": OTHER_MARKERS[earlier % len(OTHER_MARKERS)],
                "markersize": 4.5, "linestyle": "-"}
    colour, marker, dashes = SCHEMES[scheme]
    rounds, shift = divmod(earlier, len(DASHES))
    paler, fill = divmod(rounds, len(FILLS))
    return {"color": colour, "marker": marker, "markersize": 3.5,
            "linestyle": DASHES[(DASHES.index(dashes) + shift) % len(DASHES)],
            "fillstyle": FILLS[fill], "alpha": max(0.2, 0.6 ** paler)}


def styles_of(schemes):
    """A style for each line, from the schemes of the lines. Lines of one
    scheme share its colour and marker and are told apart by dashes, then by
    hollow markers, then by paler lines. If there are more than dashes and all
    are of one scheme, each has a colour of its own."""
    if len(set(schemes)) == 1 and len(schemes) > len(DASHES):
        schemes = [None] * len(schemes)
    drawn = Counter()
    styles = []
    for scheme in schemes:
        scheme = scheme if scheme in SCHEMES else None
        styles.append(style_of(scheme, drawn[scheme]))
        drawn[scheme] += 1
    return styles


def scheme_of(runs):
    """The scheme of a group of runs, or None if they differ."""
    schemes = {run.input.get("sync.scheme") for run in runs}
    return schemes.pop() if len(schemes) == 1 else None


def prepare():
    """matplotlib.pyplot with the settings of all pictures."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "lines.linewidth": 1.5,
                         "axes.spines.top": False, "axes.spines.right": False})
    return plt


def width_in(figure, artist):
    """The width of a text or legend in inches."""
    renderer = figure.canvas.get_renderer()
    return artist.get_window_extent(renderer).width / figure.dpi


def legend_above(figure, labels, styles, most):
    """A legend at the top of a figure with at most so many columns, fewer if
    it would be wider than the figure. Returns its height in inches."""
    from matplotlib.lines import Line2D
    lines = [Line2D([], [], **style) for style in styles]
    for columns in range(min(most, len(labels)), 0, -1):
        legend = figure.legend(lines, labels, loc="upper center", ncol=columns,
                               frameon=False, borderaxespad=0.2)
        if columns == 1 or width_in(figure, legend) <= figure.get_figwidth():
            break
        legend.remove()
    renderer = figure.canvas.get_renderer()
    return legend.get_window_extent(renderer).height / figure.dpi
