"""How lines, bars and axes are drawn: a scheme has the same colour and marker
in every picture, and a part of a worker's time a colour that no scheme has.
"""
import io
import os
from collections import Counter

from exit_codes import BAD_INPUT
from script import RunError, whole_file

# Okabe and Ito's palette for every kind of colour vision, with grey instead of
# yellow.
BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK, GREY = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9",
    "#000000", "#8A8A8A"]
DASHES = ["-", "--", "-.", ":"]
PARTS = {"compute": "#B5D3E7", "communication": "#5E4C8C",
         "communication and waiting": "#A3607F",
         "waiting for others": "#E9B7A6"}
HIDDEN = "#A894D0"  # communication during computation
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
# How the markers of lines of one scheme are filled, because a single point
# shows no dashes.
FILLS = ["full", "none", "left", "right"]
# Markers that no scheme has, for lines of no scheme or of several.
OTHER_MARKERS = "*>ph8"


MARGIN = 0.2  # inches, of which half is left beside a legend on each side
PICTURES = (".png", ".pdf", ".svg")
TIMES = {"virtual_s": "virtual time (s)",
         "time_s": "training time on this machine (s)"}


def check_ending(path, accepted=PICTURES):
    """RunError unless the name ends like that of a picture, or as `accepted`
    says."""
    if os.path.splitext(path)[1] not in accepted:
        raise RunError(BAD_INPUT, f"{path}: the name must end in "
                       f"{' or '.join(accepted)}")


def save(figure, path, dpi=150):
    """Writes a picture in the format that the name's ending says."""
    check_ending(path)
    picture = io.BytesIO()  # matplotlib takes errors of files badly
    figure.savefig(picture, dpi=dpi, format=os.path.splitext(path)[1][1:])
    with whole_file(path, "wb") as file:
        file.write(picture.getvalue())


def other_colours(count):
    """So many colours that no scheme has, from dark blue to yellow."""
    from matplotlib.colors import to_hex
    from matplotlib.pyplot import get_cmap
    return [to_hex(get_cmap("viridis")(0.95 * place / max(1, count - 1)))
            for place in range(count)]


def style_of_scheme(scheme, earlier):
    """The style of a line, of which `earlier` ones are of the same scheme."""
    colour, marker, dashes = SCHEMES[scheme]
    place = (DASHES.index(dashes) + earlier) % len(DASHES)
    return {"color": colour, "marker": marker, "markersize": 3.5,
            "fillstyle": FILLS[earlier], "linestyle": DASHES[place]}


def styles_of(schemes):
    """A style for each line, from the schemes of the lines. Lines of one
    scheme share its colour and marker and are told apart by dashes and by how
    the markers are filled. If there are more of one scheme than dashes, they
    have colours and markers that no scheme has, as do lines of no scheme."""
    lines = Counter(schemes)
    is_other = [scheme not in SCHEMES or lines[scheme] > len(DASHES)
                for scheme in schemes]
    colours = other_colours(sum(is_other))
    drawn = Counter()
    styles = []
    for scheme, other in zip(schemes, is_other):
        scheme = None if other else scheme
        earlier = drawn[scheme]
        drawn[scheme] += 1
        styles.append(style_of_scheme(scheme, earlier) if scheme else {
            "color": colours[earlier],
            "marker": OTHER_MARKERS[earlier % len(OTHER_MARKERS)],
            "markersize": 4.5, "linestyle": DASHES[earlier % len(DASHES)]})
    return styles


def marked(count):
    """Which of a line's points have a marker: about nine, and the last one."""
    step = max(1, count // 8)
    places = list(range(0, count, step))
    if places and places[-1] < count - 1:
        if count - 1 - places[-1] < step / 2:
            places.pop()
        places.append(count - 1)
    return places


def mark_divergence(panel, x, y, colour):
    """A cross where a line ends because what it shows diverged, at the axis'
    end if it is beyond."""
    low, high = sorted(panel.get_ylim())
    y = min(max(y, low), high)
    panel.plot(x, y, "x", color=colour, markersize=8, markeredgewidth=2,
               clip_on=False, zorder=5)


def label_log_axis(axis):
    """Plain numbers at powers of ten and, below three decades, also at twice
    and five times those."""
    from matplotlib.ticker import LogLocator
    low, high = axis.get_view_interval()
    if high < 1000 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter("")


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


def plain(label):
    """A label that matplotlib shows as it is: no mathematics between dollar
    signs, and not left out of legends because it begins with a _."""
    return " " * label.startswith("_") + label.replace("$", r"\$")


def fitted_legend(figure, lines, labels, most, **options):
    """A legend at the top of a figure with at most so many columns, fewer if
    it would be wider than the figure. Returns its height in inches."""
    for columns in range(min(most, len(labels)), 0, -1):
        legend = figure.legend(lines, labels, loc="upper center", ncol=columns,
                               frameon=False, borderaxespad=0.2, **options)
        if columns == 1 or \
                width_in(figure, legend) <= figure.get_figwidth() - MARGIN:
            break
        legend.remove()
    renderer = figure.canvas.get_renderer()
    return legend.get_window_extent(renderer).height / figure.dpi


def legend_above(figure, labels, styles, most, band=None, mark=None):
    """A fitted legend of lines; `band` says what bands are, if there are any.
    `mark` is one more entry, (style, label). Returns its height in inches."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    lines = [Line2D([], [], **style) for style in styles]
    labels = [plain(label) for label in labels]
    if band:
        lines.append(Patch(color=GREY, alpha=0.3, linewidth=0))
        labels = [*labels, f"band: {band}"]
    if mark:
        lines.append(Line2D([], [], **mark[0]))
        labels = [*labels, mark[1]]
    return fitted_legend(figure, lines, labels, most)
