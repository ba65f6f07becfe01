pub mod years;
