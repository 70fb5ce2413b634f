"""The assignor: decides for the group's leader who runs which task; pure, on the membership's thread."""
