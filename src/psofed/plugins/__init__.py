"""Methods, streams, policies and functions from outside the package."""

from psofed.plugins.installed import entries as entries
from psofed.plugins.loading import Plugin as Plugin
from psofed.plugins.loading import attribute as attribute
from psofed.plugins.loading import beside as beside
from psofed.plugins.loading import entry as entry
from psofed.plugins.loading import is_ours as is_ours
from psofed.plugins.loading import loaded as loaded
from psofed.plugins.loading import module as module
from psofed.plugins.loading import of as of
from psofed.plugins.loading import outside as outside
from psofed.plugins.loading import refused as refused
from psofed.plugins.loading import relative_to as relative_to
from psofed.plugins.naming import blamed as blamed
from psofed.plugins.naming import naming as naming
from psofed.plugins.naming import spelled as spelled
from psofed.plugins.naming import unwritten as unwritten
from psofed.plugins.parcels import Packed as Packed
from psofed.plugins.parcels import pack as pack
