"""How lines and bars are drawn: a scheme has the same colour, marker and dashes in
every picture, and so has a part of a worker's time its colour."""

# Okabe and Ito's palette for every kind of colour vision, with grey instead of
# yellow.
BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK, GREY = PALETTE = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
    "#8A8A8A"]
MARKERS = "os^DvPX<"
DASHES = ["-", "--", "-.", ":"]
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


def style(colour, marker, dashes):
    return {"color": colour, "marker": marker, "markersize": 3.5,
            "linestyle": dashes}


def styles_of(schemes):
    """A style for each line, from the schemes of the lines. Further lines of one
    scheme keep its colour and take other dashes and markers. Lines that are all
    of one scheme, or of none that is known, are told apart by colours, then by
    dashes."""
    known = [scheme for scheme in schemes if scheme in SCHEMES]
    if len(known) < len(schemes) or \
            (len(set(schemes)) == 1 and len(schemes) > 1):
        return [style(PALETTE[index % len(PALETTE)],
                      MARKERS[index % len(MARKERS)],
                      DASHES[index // len(PALETTE) % len(DASHES)])
                for index in range(len(schemes))]
    found = []
    for index, scheme in enumerate(schemes):
        colour, marker, dashes = SCHEMES[scheme]
        earlier = schemes[:index].count(scheme)
        found.append(style(
            colour, MARKERS[(MARKERS.index(marker) + earlier) % len(MARKERS)],
            DASHES[(DASHES.index(dashes) + earlier) % len(DASHES)]))
    return found


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
