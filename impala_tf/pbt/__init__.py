"""Population based training (appendix F): rules, records and a member."""
