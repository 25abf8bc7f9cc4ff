use pyo3::prelude::*;
use windlass_bridge::Call as Bridge;

/// A call under way whose answer comes to a port.
#[pyclass(frozen)]
pub(crate) struct Call(pub(crate) Bridge);

#[pymethods]
impl Call {
    /// Ends it: no answer comes any more, and whether it had its effect is not known.
    fn abort(&self) {
        self.0.abort();
    }
}
