"""tsgen: warp-specialised GPU kernels as data, proven and emitted as readable CuTe Python."""

__version__ = "0.1.0"
