from .diagrams import operator_diagram as operator_diagram
from .drawing import draw as draw
from .files import png as png
from .pages import write_page as write_page
