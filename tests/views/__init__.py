"""Tests of the views: pages, reports and messages for a person."""
