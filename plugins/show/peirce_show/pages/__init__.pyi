from .frame import page as page
from .frame import read_all as read_all
from .model import write_page as write_page
