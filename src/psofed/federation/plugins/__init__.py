"""Methods, streams, policies and functions from outside the package."""

from psofed.federation.plugins.known import Plugin as Plugin
from psofed.federation.plugins.known import blamed as blamed
from psofed.federation.plugins.known import is_ours as is_ours
from psofed.federation.plugins.known import loaded as loaded
from psofed.federation.plugins.known import naming as naming
from psofed.federation.plugins.known import unwritten as unwritten
from psofed.federation.plugins.known import written as written
from psofed.federation.plugins.loading import attribute as attribute
from psofed.federation.plugins.loading import beside as beside
from psofed.federation.plugins.loading import entries as entries
from psofed.federation.plugins.loading import entry as entry
from psofed.federation.plugins.loading import module as module
from psofed.federation.plugins.loading import of as of
from psofed.federation.plugins.loading import outside as outside
from psofed.federation.plugins.loading import refused as refused
from psofed.federation.plugins.loading import relative_to as relative_to
from psofed.federation.plugins.loading import spelled as spelled
