use pyo3::{prelude::*, types::PyDict};
use windlass_bridge::Failure;

/// The error as Python raises it: `windlass.errors` knows the class of each code.
pub(crate) fn raised(py: Python<'_>, failure: &Failure) -> PyErr {
    exception(py, failure).map_or_else(|broken| broken, |exception| PyErr::from_value(exception))
}

/// The same as an object that is not raised yet.
pub(crate) fn exception<'py>(py: Python<'py>, failure: &Failure) -> PyResult<Bound<'py, PyAny>> {
    let flags = PyDict::new(py);
    flags.set_item("retryable", failure.retryable)?;
    flags.set_item("ambiguous", failure.ambiguous)?;
    py.import("windlass.errors")?.getattr("error_of")?.call((failure.code, &failure.message), Some(&flags))
}
