//! Statement + view -> plan. Pure, and the heart of the product.
//!
//! [`locate`] finds the one partition that a lookup needs, [`plan`] orders its replicas and gives every host that is not
//! asked its reason, [`scattered`] does the same for the many partitions of a scan, [`verdict`] reads what an attempt brought back.

mod absence;
mod budget;
mod concurrency;
mod locate;
mod native;
mod plan;
mod scatter;
mod traffic;
mod verdict;

pub use absence::{Key, Rows, any_key, first_at_or_after, together, windows_of};
pub use budget::Budget;
pub use concurrency::Concurrency;
pub use locate::{Located, PassReason, key_literals, locate};
pub use native::native_order;
pub use plan::{After, Candidate, Options, Plan, Preference, Rejected, Rejection, plan};
pub use scatter::{Group, Scattered, Standing, assign, scattered};
pub use traffic::{HostTraffic, Traffic};
pub use verdict::{Retry, Verdict, read_error, read_error_row};
