from .diagrams import operator_diagram as operator_diagram
from .drawing import draw as draw
