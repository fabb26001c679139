"""Documents -> kernels: params, names, expressions and structure. One module for each part of the language."""
