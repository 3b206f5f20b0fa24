"""Colours, markers and dashes of all figures: the same scheme looks the same
everywhere, and so does the same part of a worker's time.
"""
# Okabe and Ito's palette for every kind of colour vision, with grey instead of
# yellow.
BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, BLACK, GREY = PALETTE = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9",
    "#000000", "#8A8A8A"]
MARKERS = "os^DvPX<"
DASHES = ["-", "--", "-.", ":"]
PARTS = {"compute": BLUE, "communication": ORANGE,
         "waiting for others": VERMILION}
# The first eight differ in colour; the others have that of a relative.
SCHEMES = {
    "bsp": (BLUE, "o", "-"), "esync": (VERMILION, "s", "-"),
    "local_sgd": (GREEN, "^", "-"), "asp": (PINK, "D", "-"),
    "ds_sync": (ORANGE, "v", "-"), "sync_switch": (SKY, "P", "-"),
    "choco": (BLACK, "X", "-"), "d_psgd": (GREY, "<", "-"),
    "easgd": (GREEN, ">", "--"), "ssp": (PINK, "d", "--"),
    "dgc": (ORANGE, "p", "--"), "power_sgd": (SKY, "h", "--"),
    "ef_sign_sgd": (VERMILION, "*", "--"), "sgp": (BLUE, "8", "--"),
    "dcd_psgd": (BLACK, "x", "--"), "ecd_psgd": (BLACK, "+", "-."),
    "deep_squeeze": (GREY, "1", "--"),
}


def styles_of(count):
    """Colours and markers, then dashes."""
    return [{"color": PALETTE[index % len(PALETTE)],
             "marker": MARKERS[index % len(MARKERS)], "markersize": 3.5,
             "linestyle": DASHES[index // len(PALETTE) % 4]}
            for index in range(count)]


def styles_for(labels):
    """A style for each of these lines: that of its scheme, if all of them are
    named after different schemes ("asp (1 of 3 diverged)"), else by place."""
    schemes = [label.split(" ")[0] for label in labels]
    if len(set(schemes)) < len(schemes) or not set(schemes) <= SCHEMES.keys():
        return styles_of(len(schemes))
    return [dict(zip(("color", "marker", "linestyle"), SCHEMES[scheme]),
                 markersize=3.5) for scheme in schemes]


def prepare():
    """matplotlib.pyplot with the settings of all figures."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "lines.linewidth": 1.5,
                         "axes.spines.top": False, "axes.spines.right": False})
    return plt
