"""The assignor: decides for the group's leader which member runs which task; pure, on the membership's thread."""
