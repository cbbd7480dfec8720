"""What an app with so many installs would see: populations, three ways to run them, and the verdict."""
