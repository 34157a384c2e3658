//! What only the database's own locks do.
