from site_command import peirce as peirce
from site_command import site as site
